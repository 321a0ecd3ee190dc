"""How chainrule speaks with other libraries: protocols of NumPy, the Array API standard, DLPack,
safetensors."""
