"""What run folders are made of: whole files, pytrees, the record, TensorBoard events."""
