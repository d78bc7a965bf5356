"""The probe of fs_plugins.analysis, by its old name: python -m fs_plugins.analysis.probe does the same."""

from fs_plugins.analysis.probe import main

if __name__ == "__main__":
    main()
