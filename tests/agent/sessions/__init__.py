"""Session files under real faults: cuts at every byte, a killed writer, a full disk, two processes."""
