"""The requirements of a VM on its host: one module each; a `Requirement` in a module of this folder is found."""
