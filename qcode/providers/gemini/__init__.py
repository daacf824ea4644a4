"""Google's Gemini API: `streamGenerateContent`."""
