"""What all views share: tables of text, the console, the page, files, charts' axes and colours."""
