"""Small widgets that every page may use. They know the theme and nothing of what they show."""
