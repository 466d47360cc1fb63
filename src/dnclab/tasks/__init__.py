"""The paper's tasks as sources of data, one file each. They know no model."""

from dnclab.tasks import associative_recall, key_value, repeat_copy
from dnclab.tasks.bitmap import BitmapTask

BITMAP_TASKS: dict[str, BitmapTask] = {
    "repeat-copy": repeat_copy.PAPER,
    "repeat-copy-appendix": repeat_copy.APPENDIX,
    "associative-recall": associative_recall.PAPER,
    "key-value": key_value.PAPER,
    "key-value-one-way": key_value.ONE_WAY,
}
"""The tasks on rows of bits, by name, with the paper's sizes."""
