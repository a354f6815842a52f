"""The main window: bar, sidebar, menus and pages put together. All work is done elsewhere."""
