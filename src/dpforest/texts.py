"""Names and labels as people can read them. They can hold anything."""

MOST_CHARACTERS = 60


def plain(text: object) -> str:
    """A text on one line, without characters that move the cursor or turn the writing."""
    return "".join(character if character.isprintable() else "\ufffd" for character in str(text))


def shortened(text: object) -> str:
    """A name that is plain, and not endless."""
    name = plain(text)
    return name if len(name) <= MOST_CHARACTERS else f"{name[: MOST_CHARACTERS - 1]}…"
