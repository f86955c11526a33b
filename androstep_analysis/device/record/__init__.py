"""Recording, sampling and measuring on a device, what works of that there, and the captures that come of it."""
