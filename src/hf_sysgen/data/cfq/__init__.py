"""CFQ: questions to SPARQL queries (`builder`) or to dependency trees (`dependencies`)."""
