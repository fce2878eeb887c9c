"""Real OpenStack sites on one machine, to try Archipel with."""
