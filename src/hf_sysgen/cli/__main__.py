from hf_sysgen.cli.main import main

if __name__ == "__main__":
    main()
