"""A column that says the site of each item of a merged list."""

from cliff import hooks

from osc_archipel import session


class SiteColumn(hooks.CommandHook):
    """Adds the column if the answer has tags; an answer without is shown as ever."""

    def get_parser(self, parser):
        return parser

    def get_epilog(self):
        return ""

    def before(self, parsed_args):
        return parsed_args

    def after(self, parsed_args, return_code):
        """What is called `return_code` is, for lists, the columns' names and the rows."""
        names, rows = return_code
        # Some rows are made, and some requests sent, while they are read.
        return session.OBSERVER.tags.columns(names, list(rows))
