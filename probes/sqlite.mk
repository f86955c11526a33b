# Builds SQLite for iobench, once for each target and once for this machine. A file of its own: the library takes half a
# minute to compile and must not wait for every change of probes.mk.

SQLITE := build/sqlite
# A connection of SQLite is never used by two threads at once (2). As many databases are attached as one word has bits
# for. fdatasync is what Android's and Debian's builds use; the amalgamation alone would not look for it. F2FS' atomic
# writes, which take the place of a rollback journal, are on in Android's.
SQLITE_CFLAGS := -w -O2 -DSQLITE_THREADSAFE=2 -DSQLITE_DQS=0 -DSQLITE_OMIT_LOAD_EXTENSION -DSQLITE_MAX_ATTACHED=30 \
  -DHAVE_FDATASYNC -DHAVE_USLEEP -DSQLITE_ENABLE_BATCH_ATOMIC_WRITE

$(SQLITE)/sqlite3.c: tools/fetch_sqlite.py | setup
	@$(BIN)/python $< $(@D)

# $(call sqlite,VARIANT,COMPILER,WHAT BRINGS THE COMPILER)
define sqlite
$(PROBES_OUT)/$(1)/obj/sqlite3.o: $(SQLITE)/sqlite3.c probes/sqlite.mk | $(3)
	@mkdir -p $$(@D)
	@echo '$(1): $$<'
	@$(2) $(SQLITE_CFLAGS) -c $$< -o $$@
endef

$(foreach target,$(TARGETS),$(eval $(call sqlite,$(target),$(ZIG_CC) -target $(target),setup)))
$(eval $(call sqlite,native,$(CC),build/.compiler))

$(PROBES_OUT)/sanitized/obj/iobench/tests/test_sqlite.o: | $(SQLITE)/sqlite3.c
