from hf_sysgen.cli.main.main import main

if __name__ == "__main__":
    main()
