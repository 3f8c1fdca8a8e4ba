"""FLoRes: translation of Nepali and Sinhala from and to English."""
