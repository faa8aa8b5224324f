"""How values and errors become bytes in a store, and come back as what they were.

`JsonCodec` is the default; `WrappedCodec` puts encryption or compression around it; `Codec` is what both are.
"""

from outlast.codec.json_codec import JsonCodec
from outlast.codec.protocol import Codec
from outlast.codec.wrapped_codec import WrappedCodec

__all__ = ["Codec", "JsonCodec", "WrappedCodec"]
