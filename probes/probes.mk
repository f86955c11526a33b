# Builds the probes into build/probes/<variant>/<probe>, on all processors. A variant is a target, native, sanitized or
# tsan.
#   make probes                  the static programs for devices, and those for this machine
#   make probes TARGET=native    one variant
#   make probes-tests            what `make test` needs
#   make probes-prove            what `make prove` needs: also static programs for guests, and those that find races
# Every folder with a main.c is a program. It is linked with what it needs of the rest of its folder and of those below.
# Static binaries for devices come from zig (in the lock of Python packages); the others from $(CC).

PROBES := $(patsubst probes/%/main.c,%,$(wildcard probes/*/main.c))
PROBES_THREADED := iobench ioreplay

# The folders that a program may use beside its own. No include and no link goes another way.
below_common :=
below_extmap := common
below_iobench := common
below_ioreplay := common
below_iotrace := extmap common
below_procmon := extmap common

TARGETS := aarch64-linux-musl x86_64-linux-musl arm-linux-musleabihf

PROBES_OUT := build/probes
PROBES_CFLAGS := -std=c11 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -Iprobes -Wall -Wextra -Werror -MMD -MP
SANITIZERS := -fsanitize=address,undefined -fno-sanitize-recover=all

ZIG := ZIG_LOCAL_CACHE_DIR=build/zig ZIG_GLOBAL_CACHE_DIR=build/zig $(BIN)/python -m ziglang
ZIG_CC := $(ZIG) cc

PROBES_TESTS := $(wildcard probes/*/tests/test_*.c)

# $(call programs,VARIANTS): all probes in these variants.
programs = $(foreach variant,$(1),$(PROBES:%=$(PROBES_OUT)/$(variant)/%))

PROBES_OF_TESTS := $(call programs,native sanitized) \
  $(patsubst %.c,$(PROBES_OUT)/sanitized/%,$(notdir $(PROBES_TESTS)))
# Those of the first two targets run in guests and under qemu-user.
PROBES_OF_PROVE := $(PROBES_OF_TESTS) $(call programs,aarch64-linux-musl x86_64-linux-musl) \
  $(PROBES_THREADED:%=$(PROBES_OUT)/tsan/%)
define newline


endef

include probes/sqlite.mk

# $(call objects,VARIANT,FOLDER): of all in the folder but its main.c and its tests.
objects = $(patsubst probes/%.c,$(PROBES_OUT)/$(1)/obj/%.o, \
  $(filter-out %/main.c,$(wildcard probes/$(2)/*.c)) $(filter-out $(PROBES_TESTS),$(wildcard probes/$(2)/*/*.c)))

# $(call archives,VARIANT,FOLDER): the folder's and those that it may use, in the order of the link.
archives = $(patsubst %,$(PROBES_OUT)/$(1)/obj/%.a,$(2) $(below_$(2)))

# $(call linked,VARIANT,COMPILER AND FLAGS,WHAT BRINGS THE COMPILER,VARIANT WHOSE SQLITE,PROBES,AR): how the programs
# of one variant are made.
define linked
$(PROBES_OUT)/$(1)/obj/%.o: probes/%.c probes/probes.mk | $(3)
	@mkdir -p $$(@D)
	@echo '$(1): $$<'
	@$(2) $(PROBES_CFLAGS) -I$(SQLITE) -c $$< -o $$@

$(foreach folder,$(sort $(5) $(foreach probe,$(5),$(below_$(probe)))), \
  $(PROBES_OUT)/$(1)/obj/$(folder).a: $(call objects,$(1),$(folder))$(newline))
$(PROBES_OUT)/$(1)/obj/%.a:
	@rm -f $$@
	@$(6) rcs $$@ $$^

$(call objects,$(1),iobench) $(PROBES_OUT)/$(1)/obj/iobench/main.o: | $(SQLITE)/sqlite3.c
$(foreach probe,$(5), \
  $(PROBES_OUT)/$(1)/$(probe): $(PROBES_OUT)/$(1)/obj/$(probe)/main.o $(call archives,$(1),$(probe))$(newline))
$(PROBES_OUT)/$(1)/iobench: $(PROBES_OUT)/$(4)/obj/sqlite3.o
$(PROBES_OUT)/$(1)/iobench: LIBRARIES := -pthread -ldl -lm
$(PROBES_OUT)/$(1)/ioreplay: LIBRARIES := -pthread
$(5:%=$(PROBES_OUT)/$(1)/%):
	@echo '$$@'
	@$(2) $$^ $$(LIBRARIES) -o $$@
endef

# SQLite is the library under the probes' tests, not what they test: they are checked, it is not, which would cost a
# minute for each kind of check.
$(foreach target,$(TARGETS), \
  $(eval $(call linked,$(target),$(ZIG_CC) -target $(target) -O2 -static -s,setup,$(target),$(PROBES),$(ZIG) ar)))
$(eval $(call linked,native,$(CC) -O2,build/.compiler,native,$(PROBES),$(AR)))
$(eval $(call linked,sanitized,$(CC) -O1 -g -fno-omit-frame-pointer $(SANITIZERS),build/.compiler,native,$(PROBES),$(AR)))
$(eval $(call linked,tsan,$(CC) -O1 -g -fsanitize=thread,build/.compiler,native,$(PROBES_THREADED),$(AR)))

include probes/bionic.mk

# $(call compiled,NAME,PROGRAMS,WHAT COMES BEFORE): `make NAME` compiles these programs, by a make of its own that uses
# all processors. What comes before may install packages, one after the other.
define compiled
.PHONY: $(1)
$(1): $(3)
	@$$(MAKE) --no-print-directory --output-sync --jobs=$$$$(getconf _NPROCESSORS_ONLN) $(2)
endef
$(eval $(call compiled,probes,$(call programs,$(or $(TARGET),$(TARGETS) native)),setup))
$(eval $(call compiled,probes-native,$(call programs,native),build/.compiler))
$(eval $(call compiled,probes-devices,$(call programs,$(TARGETS)),setup))
$(eval $(call compiled,probes-bionic,$(BIONIC_PROGRAMS),setup))
$(eval $(call compiled,probes-tests,$(PROBES_OF_TESTS),build/.compiler))
$(eval $(call compiled,probes-prove,$(PROBES_OF_PROVE) $(BIONIC_PROGRAMS),build/.compiler))

# $(call tested,FOLDER,TEST)
define tested
$(PROBES_OUT)/sanitized/$(2): $(PROBES_OUT)/sanitized/obj/$(1)/tests/$(2).o $(call archives,sanitized,$(1))
	@echo '$$@'
	@$(CC) $(SANITIZERS) $$^ -o $$@
endef
$(foreach test,$(PROBES_TESTS),$(eval $(call tested,$(word 2,$(subst /, ,$(test))),$(basename $(notdir $(test))))))

-include $(wildcard $(PROBES_OUT)/*/obj/*/*.d $(PROBES_OUT)/*/obj/*/*/*.d)
