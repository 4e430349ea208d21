from trackside.smdebug_alias.not_offered import PYTHON_PROFILES, not_offered

__all__ = ["PyinstrumentAnalysis", "PythonProfileAnalysis", "cProfileAnalysis"]

PythonProfileAnalysis = not_offered("PythonProfileAnalysis", PYTHON_PROFILES)
PyinstrumentAnalysis = not_offered("PyinstrumentAnalysis", PYTHON_PROFILES)
cProfileAnalysis = not_offered("cProfileAnalysis", PYTHON_PROFILES)
