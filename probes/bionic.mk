# Builds iobench for Android's own C library (bionic, arm64), the one build of it for phones that can load a library,
# and so measure with the phone's own SQLite. Not yet run on a phone: see docs/bench.md.
#   make probes-bionic    build/probes/aarch64-linux-android/iobench
# Neither zig nor a package index has bionic. probes/bionic/ has what is needed of it: libc.symbols and libdl.symbols
# name its functions, of which stub libraries are made to link with; start.c, functions.c and types.h hold what differs
# from musl, whose headers serve otherwise. A function that the link finds undefined is added to the names only after
# its arguments have been compared with bionic's headers, and if Android 6 has it (libc.map.txt of bionic says).

BIONIC := aarch64-linux-android
BIONIC_OUT := $(PROBES_OUT)/$(BIONIC)
# Android keeps register x18 for itself (zig heeds no -ffixed-x18); threads' variables that the linker places came with
# Android 10.
BIONIC_TARGET := -target aarch64-linux-musl -mcpu=generic+reserve_x18
BIONIC_CC := $(ZIG_CC) $(BIONIC_TARGET) -O2 -s -fPIE -femulated-tls -include probes/bionic/types.h
# Pages of 16 KiB are the largest of arm64 phones.
BIONIC_LINK := -pie -nostdlib -Wl,-dynamic-linker,/system/bin/linker64 -Wl,-z,max-page-size=16384

BIONIC_PROGRAMS := $(BIONIC_OUT)/iobench $(BIONIC_OUT)/iobench-on-musl

$(eval $(call linked,$(BIONIC),$(BIONIC_CC),setup,$(BIONIC),iobench,$(ZIG) ar))
$(eval $(call sqlite,$(BIONIC),$(BIONIC_CC),setup))
BIONIC_IOBENCH := $(BIONIC_OUT)/obj/iobench/main.o $(call archives,$(BIONIC),iobench) $(BIONIC_OUT)/obj/sqlite3.o
$(BIONIC_OUT)/obj/iobench/main.o $(BIONIC_OUT)/obj/sqlite3.o $(foreach folder,iobench $(below_iobench), \
  $(call objects,$(BIONIC),$(folder))): probes/bionic.mk probes/bionic/types.h

$(BIONIC_OUT)/iobench: $(patsubst %,$(BIONIC_OUT)/obj/%,bionic/start.o bionic/functions.o libc.so libdl.so)
$(BIONIC_OUT)/iobench: LIBRARIES := $(BIONIC_LINK)

# The same with musl instead of bionic, for tests: it runs on any arm64 kernel.
$(BIONIC_OUT)/iobench-on-musl: $(BIONIC_IOBENCH) $(BIONIC_OUT)/obj/bionic/functions.o
	@echo '$@'
	@$(ZIG_CC) $(BIONIC_TARGET) -static -s $^ -o $@

$(BIONIC_OUT)/obj/%.so: probes/bionic/%.symbols probes/bionic.mk | setup
	@mkdir -p $(@D)
	@echo '$(BIONIC): $<'
	@tr ' ' '\n' <$< | sed 's/.*/.globl &\n&:/' > $(@:.so=.s)
	@$(ZIG_CC) $(BIONIC_TARGET) -shared -nostdlib -Wl,-soname,$(@F) $(@:.so=.s) -o $@
