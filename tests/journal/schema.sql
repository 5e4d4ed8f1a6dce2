PRAGMA user_version = 1;
CREATE TABLE run (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), identity TEXT NOT NULL, state TEXT);
CREATE TABLE facts (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE pieces (start INTEGER PRIMARY KEY, stop INTEGER NOT NULL, value BLOB, CHECK (0 <= start AND start < stop));
CREATE TABLE failures (start INTEGER PRIMARY KEY, stop INTEGER NOT NULL, about TEXT NOT NULL, CHECK (0 <= start AND start < stop));
CREATE TABLE events (number INTEGER PRIMARY KEY, seconds REAL NOT NULL, kind TEXT NOT NULL, about TEXT NOT NULL);
