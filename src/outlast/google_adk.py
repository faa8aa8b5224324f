"""Outlast under Google's Agent Development Kit: `pip install 'outlast[google-adk]'`."""

from outlast.adapters.extras import needs

with needs("google_adk"):
    from outlast.adapters.google_adk.confirming import confirmations
    from outlast.adapters.google_adk.plugin import Plugin
    from outlast.adapters.google_adk.sessions import Sessions

__all__ = ["Plugin", "Sessions", "confirmations"]
