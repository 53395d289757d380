"""MIG placement: layouts, where instances fit, and the way from one layout to another. Pure."""
