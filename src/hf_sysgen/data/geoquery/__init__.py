"""GeoQuery: questions about the geography of the United States to FunQL queries."""
