"""YAML from people, read so that whatever stands in it ends in one sentence."""

import yaml

# what its constructors let out beside YAMLError: `2026-99-99`, `!!bool maybe`, `!!timestamp soon`, `!!int ""`,
# integers of thousands of digits, lists in lists in lists
_NOT_READ = (ValueError, LookupError, AttributeError, ArithmeticError, TypeError, RecursionError)


class NoYaml(ValueError):
    """It cannot be read; the text says why, as the end of a sentence."""


def read_yaml(data: bytes) -> object:
    """The plain data in a text.

    Raises:
        NoYaml: it is no UTF-8, no YAML, or a value in it is none (a date in no calendar, a number too long).
    """
    try:
        return yaml.safe_load(data.decode())
    except UnicodeDecodeError:
        raise NoYaml("it is no UTF-8 text") from None
    except yaml.YAMLError:
        raise NoYaml("it is no YAML") from None
    except _NOT_READ as error:
        raise NoYaml(f"a value in it is not what it looks like ({str(error)[:80]}): quote it") from None
