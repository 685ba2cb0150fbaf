"""The HTTP API: devices enrol and hand in evidence, operators ask and act.

Nothing is exported here: the records of the answers are also the command line's, which needs no web framework.
"""
