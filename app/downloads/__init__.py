"""Downloads in the app: the queue beside the GUI thread, the way to the hub, and a card for each download."""
