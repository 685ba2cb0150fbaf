"""Taking events in: validate each on its own, commit in groups, receipt after the commit, then acknowledge.

`inspection`, `judgement` and `ranges` are pure, `commit` is one transaction, `worker` is the loop around it and
`session` is MQTT.
"""

from fleet_server.ingest.batch import Answer, Committed
from fleet_server.ingest.commit import Committer
from fleet_server.ingest.inspection import inspect
from fleet_server.ingest.judgement import Now, Rules
from fleet_server.ingest.parcels import Arrival
from fleet_server.ingest.settlement import Limits

__all__ = ["Answer", "Arrival", "Committed", "Committer", "Limits", "Now", "Rules", "inspect"]
