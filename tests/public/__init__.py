"""What holds for every public name: its shapes, its examples, its answers to wrong arguments."""
