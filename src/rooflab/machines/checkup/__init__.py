"""What does this environment grant, what does it lack, and what does each lack mean for rooflab?"""
