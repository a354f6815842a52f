"""Chats on disk: SQLite, its migrations, and the thread that reads and writes."""
