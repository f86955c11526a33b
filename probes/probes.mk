# Builds the probes, each from the C files that its line names (without .c):
#   make probes        everything: build/probes/<target or native or sanitized>/<probe>
#   make probes-tests  what `make pytest` needs of it
# Static binaries for devices come from zig (in the lock of Python packages); native and sanitized ones from $(CC).

COMMON := clock complain crc json opts procfs record
LISTING := encryption extmap_tasks extmap_tree filemap inodes mounts packages

extmap := extmap $(COMMON) $(LISTING)
iotrace := iotrace android btf comms devmapper drain dynprobes files json listing output presets recording ringbuffer \
  running salvage session topology tracedat tracefs $(COMMON) $(LISTING)

PROBES := extmap iotrace
PROBES_TESTED := filemap inodes opts packages record

TARGETS := aarch64-linux-musl x86_64-linux-musl arm-linux-musleabihf
# Run by tests: under qemu-user and in guests. The remaining target costs a minute when its libc is not yet built.
TARGETS_TESTED := aarch64-linux-musl x86_64-linux-musl

PROBES_OUT := build/probes
PROBES_CFLAGS := -std=c11 -D_FILE_OFFSET_BITS=64 -Wall -Wextra -Werror -MMD -MP
SANITIZERS := -fsanitize=address,undefined -fno-sanitize-recover=all

ZIG_CC := ZIG_LOCAL_CACHE_DIR=build/zig ZIG_GLOBAL_CACHE_DIR=build/zig $(BIN)/python -m ziglang cc

.PHONY: probes probes-tests
probes: $(foreach variant,$(TARGETS) native sanitized,$(PROBES:%=$(PROBES_OUT)/$(variant)/%)) probes-tests
probes-tests: $(foreach variant,$(TARGETS_TESTED) native sanitized,$(PROBES:%=$(PROBES_OUT)/$(variant)/%)) \
  $(PROBES_TESTED:%=$(PROBES_OUT)/sanitized/test_%)

define newline


endef

# $(call linked,VARIANT,COMPILER AND FLAGS,WHAT BRINGS THE COMPILER): how the programs of one variant are made.
define linked
$(PROBES_OUT)/$(1)/obj/%.o: probes/%.c probes/probes.mk | $(3)
	@mkdir -p $$(@D)
	@echo '$(1): $$<'
	@$(2) $(PROBES_CFLAGS) -c $$< -o $$@

$(foreach probe,$(PROBES),$(PROBES_OUT)/$(1)/$(probe): $($(probe):%=$(PROBES_OUT)/$(1)/obj/%.o)$(newline))
$(PROBES:%=$(PROBES_OUT)/$(1)/%):
	@echo '$$@'
	@$(2) $$^ -o $$@
endef

$(foreach target,$(TARGETS),$(eval $(call linked,$(target),$(ZIG_CC) -target $(target) -O2 -static -s,setup)))
$(eval $(call linked,native,$(CC) -O2,build/.compiler))
$(eval $(call linked,sanitized,$(CC) -O1 -g -fno-omit-frame-pointer $(SANITIZERS),build/.compiler))

$(PROBES_TESTED:%=$(PROBES_OUT)/sanitized/test_%): $(PROBES_OUT)/sanitized/test_%: \
  $(PROBES_OUT)/sanitized/obj/tests/test_%.o $(foreach file,$(COMMON) $(LISTING),$(PROBES_OUT)/sanitized/obj/$(file).o)
	@echo '$@'
	@$(CC) $(SANITIZERS) $^ -o $@

-include $(wildcard $(PROBES_OUT)/*/obj/*.d $(PROBES_OUT)/*/obj/tests/*.d)
