"""MariaDB and MySQL, captured exactly from the row binlog."""
