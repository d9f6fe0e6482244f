"""The data pipeline on Spark: facts and recordings as tables.

Importing this imports no Spark; its parts do.
"""
