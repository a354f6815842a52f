"""Chatting: the conversation tree, its controller, and the views of transcript, list and composer."""
