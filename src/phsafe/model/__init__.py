"""The definition of what is published: record layouts, conditions, levels and tables, validated on construction."""
