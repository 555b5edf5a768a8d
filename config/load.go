package config

// FileBytesMax bounds a configuration file and a discovered file.
const FileBytesMax = 16 << 20
