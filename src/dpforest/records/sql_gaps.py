"""What a database cannot do for a fit, by kind, each with its reason. Public values only."""

GAPS = {
    "published variants": "printed algorithms open the rows, and rows do not leave the database.",
    "bootstrap": (
        "the draws of a bootstrap have to be kept for the whole fit, and this account may not make temporary tables "
        "(or temporary=False was asked for)."
    ),
    "sequential trees": (
        "trees that are grown one after the other, as the recipe 'auto' may choose to, keep a score for each record, and "
        "this account may not make temporary tables (or temporary=False was asked for)."
    ),
    "trees by errors": (
        "trees on records that earlier trees get wrong keep draws for each record, and this account may not make temporary "
        "tables (or temporary=False was asked for)."
    ),
    "deep forests": (
        "without temporary tables all splits are part of every query, and there are too many of them; use fewer trees or "
        "levels, or an account that may make temporary tables."
    ),
}
# These need temporary tables; the others are gaps of every account.
ONLY_WITHOUT_TABLES = ("bootstrap", "sequential trees", "trees by errors", "deep forests")
