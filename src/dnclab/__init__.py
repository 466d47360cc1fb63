"""dnclab: the improved Differentiable Neural Computer as a PyTorch layer."""

from importlib.metadata import version

from dnclab.config import DNCConfig
from dnclab.controllers import Controller, FeedForwardController, LSTMController
from dnclab.memory.reference import MemoryUnit
from dnclab.memory.types import MemoryConfig, MemoryState
from dnclab.model import DNC
from dnclab.state import DNCState, Trace

__all__ = [
    "DNC",
    "Controller",
    "DNCConfig",
    "DNCState",
    "FeedForwardController",
    "LSTMController",
    "MemoryConfig",
    "MemoryState",
    "MemoryUnit",
    "Trace",
]

__version__ = version("dnclab")
