"""Conversations to prompts, and answers to channels.

template (the model's own, or a built-in one; which of the two and why) uses rendering (one compiled template) uses
sandbox, filters and limits (what a template may do) and content (what people wrote stays recognisable). mending
tells a conversation so that a strict template takes it; tool_support tells what a template does not know of tools,
tool_variables hands over what it knows. builtin holds our own formats. channels splits answers, and tool_calls
reads the calls in them.
"""

from engine.chat.channel_markers import Channels
from engine.chat.channels import ChannelSplitter
from engine.chat.rendering import RenderedPrompt
from engine.chat.template import ChatTemplate, load_template

__all__ = ["ChannelSplitter", "Channels", "ChatTemplate", "RenderedPrompt", "load_template"]
