"""What a very large fleet would take, computed from what each part costs."""
