"""Patterns for what a vCenter answers, to rewrite it on its way to the client."""


def in_object(name, path):
    """A pattern for the value of a property of one object."""
    until = r"(?:(?!</objects>).)*?"
    return rf"(<val[^>]*>{name}</val>{until}<name>{path}</name><val )[^>]*>({until}</val></propSet>)".encode()


def of_reference(moid, path):
    """The same for an object by the last part of its reference; the value itself is not kept."""
    until = r"(?:(?!</objects>).)*?"
    return rf"(<obj [^>]*>{moid}</obj>{until}<name>{path}</name><val )[^>]*>{until}</val></propSet>".encode()
