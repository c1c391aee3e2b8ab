setup:
	@tools/setup.sh
