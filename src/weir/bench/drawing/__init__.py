"""How numbers are shown, whoever measured them: curves and timetables as pictures, tables with notes."""
