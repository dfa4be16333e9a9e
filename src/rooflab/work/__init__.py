"""What a program asks for: formulas of cost, and the front ends that capture programs as graphs."""
