"""Training by several processes: the same bits as by one, also after faults."""
