"""The settings page, made from the declared table. Knows the theme and the settings, no chats."""
