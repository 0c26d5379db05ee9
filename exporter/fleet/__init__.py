"""From pair measurements of a whole fleet to the slow link, on evidence, and what it costs."""
