"""vCenter's own objects: front door, managers, views, histories, folders."""
