"""The commands of ``dpforest``, one file each. They see what the caller gives them."""
