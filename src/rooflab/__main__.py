"""`python -m rooflab`."""

from rooflab.cli import main

if __name__ == "__main__":
    main()
